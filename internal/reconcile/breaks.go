package reconcile

// IsBreak tells that a finding is a break of the money or of its fence, found
// twice. What is none of it leaves a run incomplete.
func (f Finding) IsBreak() bool { return breaks(f.Class) && !f.Unconfirmed }
