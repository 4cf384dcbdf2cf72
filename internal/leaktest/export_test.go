package leaktest

// Left is what Exit asks.
var Left = left
