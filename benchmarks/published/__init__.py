"""Does the simulator give what PAP18 measured?"""
