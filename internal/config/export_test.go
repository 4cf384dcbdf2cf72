package config

// InitText is the file that Init writes.
func InitText() string { return example }
