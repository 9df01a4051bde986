"""What one can play with, in JupyterLab and on a page: the host in Python, and the front end in JavaScript.

Notebooks and tools import it.
"""
