package railsim

// Drawn is what a request meets.
func (m Mood) Drawn(key string, n int) Name { return m.orDefaults().drawn(key, n) }
