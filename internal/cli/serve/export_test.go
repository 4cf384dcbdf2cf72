package serve

// The pure parts of serve all, for its test.
var (
	Environment = environment
	Connection  = connection
	Summary     = summary
)
