"""Settings of the stores that are measured."""

from strandline import SegmentSettings, Settings, WalSettings

LAZY = Settings(
    wal=WalSettings(file_size_first=64 << 20),
    segment=SegmentSettings(checkpoint_bytes=1 << 40, checkpoint_interval_s=1e9),
)
"""No checkpoints: what the log alone costs."""

SUSTAINED = Settings(wal=WalSettings(file_size_first=64 << 20))
"""Everything as it comes."""
