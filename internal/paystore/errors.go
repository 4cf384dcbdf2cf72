package paystore

import "errors"

// ErrInvalid is wrapped by every refusal of an argument; nothing was sent.
var ErrInvalid = errors.New("invalid argument")
