// Package lockserver is the lock store as a service: its operations, whose they
// are, and the way to lockdb. What is done for many callers at once is
// lockserver/engine's.
//
//   - K-2.12 whoever calls with a credential reaches the sessions that this
//     credential opened, and no other's: the session's owner in lockdb begins with
//     the credential's name and a slash. That is all there is to it, so that every
//     replica knows.
//   - K-7.6 nothing is granted before the payment services have told their highest
//     token.
package lockserver
