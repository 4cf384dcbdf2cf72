package pgtest

// Folder makes the folder of one more test process below base. It returns its path and what removes it at the end.
func Folder(base string) (path string, remove func() error, err error) {
	s, err := newScratch(base)
	if err != nil {
		return "", nil, err
	}
	return s.path, s.remove, nil
}
