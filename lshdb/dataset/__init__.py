"""An index as a dataset of open tables: Parquet files under Delta Lake's log."""
