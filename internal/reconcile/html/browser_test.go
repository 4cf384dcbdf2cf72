//go:build chromium

package html_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// browser is one headless Chromium, spoken to by the DevTools protocol over two
// pipes: JSON objects with a zero byte between them.
type browser struct {
	to      *os.File
	from    *bufio.Reader
	session string
	number  int
	// requests are the addresses that the page in view asked for.
	requests []string
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"` //nolint:tagliatelle // the protocol has it so
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// startBrowser starts Chromium until the test ends. `make report-check` installs
// it where that is Debian.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "dlockctl-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	args := []string{
		"--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir=" + profile, "about:blank",
	}
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...) // it refuses to sandbox itself as root
	}
	cmd := exec.CommandContext(ctx, "chromium", args...)
	cmd.ExtraFiles = []*os.File{in, out} // as descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Debian's chromium: %v", err)
	}
	_, _ = in.Close(), out.Close()
	b := &browser{to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		_, _ = to.Close(), from.Close()
		cancel()
		_ = cmd.Wait()            // it was killed
		_ = os.RemoveAll(profile) // a temporary folder; what it started may still be writing there
	})
	var target struct {
		ID string `json:"targetId"` //nolint:tagliatelle // the protocol has it so
	}
	b.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		Session string `json:"sessionId"` //nolint:tagliatelle // the protocol has it so
	}
	b.call(t, "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	b.session = attached.Session
	b.call(t, "Page.enable", nil, nil)
	b.call(t, "Network.enable", nil, nil)
	return b
}

// call sends a command and reads on to its answer.
func (b *browser) call(t *testing.T, method string, params, result any) {
	t.Helper()
	b.number++
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	if params == nil {
		raw = []byte("{}")
	}
	text, err := json.Marshal(message{ID: b.number, Session: b.session, Method: method, Params: raw})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	answer := b.until(t, func(m message) bool { return m.ID == b.number })
	if answer.Error != nil {
		t.Fatalf("%s: %s", method, answer.Error)
	}
	if result != nil {
		if err := json.Unmarshal(answer.Result, result); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
	}
}

// until reads messages up to the one that is waited for, and keeps the addresses
// that the page asked for.
func (b *browser) until(t *testing.T, found func(message) bool) message {
	t.Helper()
	for {
		text, err := b.from.ReadBytes(0)
		if err != nil {
			t.Fatalf("read from the browser: %v", err)
		}
		var m message
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			t.Fatal(err)
		}
		if m.Method == "Network.requestWillBeSent" {
			var sent struct {
				Request struct {
					URL string `json:"url"`
				} `json:"request"`
			}
			if err := json.Unmarshal(m.Params, &sent); err != nil {
				t.Fatal(err)
			}
			b.requests = append(b.requests, sent.Request.URL)
		}
		if found(m) {
			return m
		}
	}
}

// open shows a page on a screen so wide, in a colour scheme, and returns its
// address.
func (b *browser) open(t *testing.T, page []byte, width int, scheme string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	b.requests = nil
	b.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	address := "file://" + path
	b.call(t, "Page.navigate", map[string]any{"url": address}, nil)
	b.until(t, func(m message) bool { return m.Method == "Page.loadEventFired" })
	return address
}

// eval evaluates an expression in the page, which its content security policy
// does not forbid to the debugger.
func (b *browser) eval(t *testing.T, expression string, result any) {
	t.Helper()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception json.RawMessage `json:"exceptionDetails"` //nolint:tagliatelle // the protocol has it so
	}
	b.call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &answer)
	if answer.Exception != nil {
		t.Fatalf("the page threw: %s", answer.Exception)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

// flaws are what is wrong with a page in the browser's eyes.
func (b *browser) flaws(t *testing.T, page []byte, width int, scheme string) []string {
	t.Helper()
	address := b.open(t, page, width, scheme)
	var flaws []string
	b.eval(t, inspect, &flaws)
	for _, url := range b.requests {
		if url != address {
			flaws = append(flaws, "request: "+url)
		}
	}
	slices.Sort(flaws)
	return slices.Compact(flaws)
}

// The page as the browser sees it: nothing wider than a phone, readable in both
// schemes, its tables and headings in order, no request, no script, and hostile
// text as text.
//
// Mutation: take overflow-wrap out of page.css, darken --faint in the dark scheme,
// drop a scope, or print a holder as template.HTML.
func TestPageInChromium(t *testing.T) { //nolint:tparallel // its subtests share one browser
	t.Parallel()
	b := startBrowser(t)
	for name, page := range pages(t) { //nolint:paralleltest // they share one browser
		for _, width := range []int{360, 1280} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s %d %s", name, width, scheme), func(t *testing.T) {
					for _, flaw := range b.flaws(t, page, width, scheme) {
						t.Error(flaw)
					}
				})
			}
		}
	}
}

// The inspection finds what it looks for: each of these pages has one flaw.
func TestInspectionFinds(t *testing.T) { //nolint:tparallel // its subtests share one browser
	t.Parallel()
	b := startBrowser(t)
	page := string(pages(t)["full"])
	open := strings.Replace(page, "Content-Security-Policy", "X-None", 1)
	for name, c := range map[string]struct{ page, want string }{ //nolint:paralleltest // they share one browser
		"too wide":      {strings.Replace(page, "<main>", `<main><div style="width:400px">wide</div>`, 1), "overflow: "},
		"pale":          {strings.Replace(page, "<main>", `<main><p style="color:#999;background:#fff">pale</p>`, 1), "contrast "},
		"pale label":    {strings.Replace(page, "</style>", "tbody td::before{color:#999}</style>", 1), "contrast "},
		"pale in SVG":   {strings.Replace(page, ".lanes text.axis {", ".lanes text.axis { opacity: 1; } text.axis { fill: #ccc !important;", 1), "contrast "},
		"no scope":      {strings.Replace(page, ` scope="row"`, "", 1), "th without scope: "},
		"jump":          {strings.Replace(page, "<main>", "<main><h4>deep</h4>", 1), "heading "},
		"dead link":     {strings.Replace(page, "<main>", `<main><a href="#nowhere">x</a>`, 1), "dead link: "},
		"request":       {strings.Replace(open, "<main>", `<main><img src="http://127.0.0.1:1/x">`, 1), "request: "},
		"image":         {strings.Replace(page, "<main>", `<main><img alt="x">`, 1), "element: IMG"},
		"script":        {strings.Replace(open, "<main>", "<main><script>window.hit=1</script>", 1), "script ran"},
		"handler":       {strings.Replace(page, "<main>", `<main><p onclick="x()">x</p>`, 1), "attribute: onclick"},
		"cut lane text": {strings.Replace(page, ">token 106 ", ">token 106 and a very long label that no phone could show whole ", 1), "cut text: "},
	} {
		t.Run(name, func(t *testing.T) {
			found := b.flaws(t, []byte(c.page), 360, "light")
			if !slices.ContainsFunc(found, func(flaw string) bool { return strings.HasPrefix(flaw, c.want) }) {
				t.Errorf("found %q, want one that begins with %q", found, c.want)
			}
		})
	}
}

// The policy of the page holds in the browser: an image and a script put into it
// are neither fetched nor run.
//
// Mutation: take the Content-Security-Policy out of page.html.
func TestPolicyHolds(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	page := string(pages(t)["full"])
	broken := strings.Replace(page, "<main>", `<main><img src="http://127.0.0.1:1/x"><script>window.hit=1</script>`, 1)
	b.open(t, []byte(broken), 360, "light")
	var ran bool
	b.eval(t, "window.hit !== undefined", &ran)
	if ran {
		t.Error("a script ran")
	}
	var loaded int
	b.eval(t, "performance.getEntriesByType('resource').filter(e => e.transferSize > 0).length", &loaded)
	if loaded != 0 {
		t.Errorf("%d resources were fetched", loaded)
	}
}

// On paper the page is light, whatever the reader's scheme.
//
// Mutation: take "screen and" from the dark scheme's media query.
func TestPrintIsLight(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	b.open(t, pages(t)["full"], 1280, "dark")
	b.call(t, "Emulation.setEmulatedMedia", map[string]any{"media": "print", "features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
	var background string
	b.eval(t, "getComputedStyle(document.body).backgroundColor", &background)
	if background != "rgb(255, 255, 255)" {
		t.Errorf("the paper is %s", background)
	}
}

// inspect returns the flaws of the page as a list of sentences.
const inspect = `(() => {
  const flaws = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > root.clientWidth + 0.5);
    flaws.push('overflow: ' + root.scrollWidth + ' of ' + root.clientWidth + ' by ' + (wide.length ? wide[wide.length - 1].outerHTML.slice(0, 120) : 'nothing seen'));
  }
  const parse = c => { const n = c.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const behind = e => {
    const layers = [];
    for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = c => {
    const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (colour, e, text) => {
    const under = behind(e), above = over(parse(colour), under);
    const [a, b] = [light(above), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) flaws.push('contrast ' + ratio.toFixed(2) + ' of ' + text.trim().slice(0, 40));
    return ratio;
  };
  let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.data.trim() || ['STYLE', 'SCRIPT'].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    contrast(e instanceof SVGElement ? style.fill : style.color, e, n.data);
    texts++;
  }
  for (const e of document.querySelectorAll('tbody th, tbody td')) {
    const before = getComputedStyle(e, '::before');
    if (before.content !== 'none') contrast(before.color, e, 'label ' + before.content);
  }
  if (texts < 20) flaws.push('only ' + texts + ' texts');
  for (const e of document.querySelectorAll('.lanes text')) {
    const box = e.getBBox(), width = e.ownerSVGElement.clientWidth;
    if (box.x < -0.5 || box.x + box.width > width + 0.5) flaws.push('cut text: ' + e.textContent);
  }
  for (const e of document.querySelectorAll('th:not([scope])')) flaws.push('th without scope: ' + e.textContent);
  let level = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    const next = Number(e.tagName[1]);
    if (next > level + 1) flaws.push('heading ' + e.tagName + ' after H' + level + ': ' + e.textContent);
    level = next;
  }
  if (document.querySelectorAll('h1').length !== 1) flaws.push('heading H1 not once');
  for (const e of document.querySelectorAll('a[href], use[href]')) {
    const to = e.getAttribute('href');
    if (!to.startsWith('#') || !document.getElementById(to.slice(1))) flaws.push('dead link: ' + to);
  }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size !== ids.length) flaws.push('an id stands twice');
  for (const e of document.querySelectorAll('script, img, iframe, object, embed, link, form, input, base')) flaws.push('element: ' + e.tagName);
  for (const e of document.querySelectorAll('*')) {
    for (const a of e.attributes) if (/^on/i.test(a.name)) flaws.push('attribute: ' + a.name);
  }
  if (window.hit !== undefined) flaws.push('script ran');
  return flaws;
})()`
