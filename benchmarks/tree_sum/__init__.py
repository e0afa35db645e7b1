"""What does a sum with the same bits on any number of ranks cost?"""
