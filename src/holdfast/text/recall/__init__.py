"""The recall of passages: what a question asks for, how well passages fit it, and which ones a budget has room for.

Pure: stores find the candidates, `scores` ranks them, `choice` packs them.
"""
