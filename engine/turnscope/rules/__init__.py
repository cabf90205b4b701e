"""Ways to change an envelope, one file each: general ones here, those that port one original in a folder named after it."""
