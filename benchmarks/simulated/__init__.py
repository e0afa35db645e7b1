"""Does the simulator say what the network does?"""
