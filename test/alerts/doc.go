// Package alerts proves the alert rules of deploy/prometheus with Prometheus' own
// engine: each has a case in which it fires and one in which it stays quiet. It is a
// module of its own, for Prometheus brings more modules than the program it watches.
package alerts
