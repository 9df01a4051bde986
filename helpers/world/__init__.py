"""What the lessons look at: texts and their words, telegrams, GPT-2, the numbers of the sources, a microscope.

All rooms but support, core and writing may import it.
"""
