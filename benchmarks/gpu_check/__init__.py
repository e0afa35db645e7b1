"""Does everything that needs a GPU work, and how fast is it?"""
