"""What do late ranks cost each algorithm, on average and after the last arrival?"""
