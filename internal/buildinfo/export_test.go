package buildinfo

// Parse reads a record.
func Parse(record string) Info { return parse(record) }
