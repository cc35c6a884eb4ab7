"""An ordered map on pages: a B+tree that may be larger than memory."""
