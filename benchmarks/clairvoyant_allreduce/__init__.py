"""How near is Clairvoyant's all-reduce to what nothing can beat?"""
