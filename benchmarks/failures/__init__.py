"""What do the others see when a rank is killed or stopped?"""
