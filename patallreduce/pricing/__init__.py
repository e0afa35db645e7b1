"""What collectives cost before they run: links, schedules, simulation, and which to choose."""
