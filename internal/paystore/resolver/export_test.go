package resolver

// WitnessQuery is the package's statement, as it is sent.
var WitnessQuery = witnessQuery
