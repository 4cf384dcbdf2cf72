// Package lockapi is lock-server's HTTP interface as both ends see it: the bodies
// of requests and answers, and the store's errors as problem details and back.
//
// 64-bit numbers have a string twin for readers whose numbers end at 2^53 (K-5.4);
// durations are whole milliseconds; times are text. A lock key is in a body or a
// query, never in a path. The fencing token is presented in the header
// X-Fencing-Token.
package lockapi
