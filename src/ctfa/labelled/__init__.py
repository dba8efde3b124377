"""Labelled data in, labelled results out: xarray, pandas, polars and geopandas."""
