"""Packing: values as one JSON document beside npy arrays in a zip; no code ever comes out."""
