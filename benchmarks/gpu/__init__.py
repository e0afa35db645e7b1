"""What does a GPU give: its kernels, and all-reduce among ranks that share it?"""
