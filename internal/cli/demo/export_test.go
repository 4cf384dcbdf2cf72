package demo

// Tell is what the verb does once its databases are up.
var Tell = tell
