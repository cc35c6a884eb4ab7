"""Views: folds over topics, saved in a reservoir and rebuilt from the log.

Pages of the reservoir:

    1                   the index of saved views: each view with its space and position
    space << 32 | n     pages of a view, n from 1 (view.py)
"""
