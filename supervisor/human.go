package supervisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// Proof is how a connection was shown to be the human's. Being outside the tree
// is no proof: an exited peer, a reused pid and every service of the same user
// are outside as well.
type Proof string

const (
	// ProofTerminal: keys read by the front on the terminal that it opened before
	// the first child.
	ProofTerminal Proof = "terminal"
	// ProofInherited: a descriptor that the starter of the tree gave for it.
	ProofInherited Proof = "inherited"
	// ProofPaired: a connection whose code the human typed in the first terminal.
	ProofPaired Proof = "paired"
	// ProofPhrase: the phrase that the human chose at the start.
	ProofPhrase Proof = "phrase"
)

const (
	// lostEndpointWait is how long open asks wait after the last endpoint went.
	lostEndpointWait = 3 * time.Second
	// maxPending bounds the questions that wait for a human, per tree.
	maxPending = 512
	// maxPerSession bounds those of one session, so that one noisy child cannot
	// take the places of its siblings.
	maxPerSession = 32
	// maxShown bounds the questions of one session that an endpoint shows at once:
	// those of its siblings are not behind all of them.
	maxShown = 8
	// maxWrongPhrases locks the phrase for the tree.
	maxWrongPhrases = 3
)

var (
	// ErrNobody says that no human endpoint is attached, or that the last one went.
	ErrNobody = errors.New("nobody can answer")
	// ErrTooManyAsks says that the budget of a session or of the tree is used up.
	ErrTooManyAsks = errors.New("too many questions wait for the human")
	// ErrTooLarge says that a question fits in no frame.
	ErrTooLarge  = errors.New("the question is too large to be shown")
	errNotProven = errors.New("nothing proves that this connection is the human's")
)

// endpoint is something through which a human can answer now.
type endpoint struct {
	proof Proof
	conn  *control.Conn

	// shown are the questions that it was sent and whose end it was not told,
	// under humans.mu. wake says that there may be something to send.
	shown []*question
	// notices are lines that it was not sent yet, under humans.mu.
	notices []string
	wake    chan struct{}
	over    chan struct{} // closed when it is detached
}

// humanAnswer is an answer with the proof of who gave it.
type humanAnswer struct {
	control.Answer
	Proof Proof
}

// allows says whether it is one of the answers that allow: what is not is none.
func (a humanAnswer) allows() bool {
	switch a.Decision {
	case "allow_once", "allow_for_turn", "allow_always":
		return true
	}
	return false
}

// said is the answer of a person; that the question could not be shown is none.
func (a humanAnswer) said() (humanAnswer, error) {
	if a.Decision == "unavailable" {
		return humanAnswer{}, fmt.Errorf("%w: %s", ErrNobody, a.Reason)
	}
	return a, nil
}

type question struct {
	control.Question
	answered chan humanAnswer // buffered, one value
	done     bool
	why      string // it is done
}

// humans is the one component through which a human is asked: endpoints, the
// proofs that make one, and the questions that wait. The first valid answer to a
// question stands; every other is a no-op.
type humans struct {
	mu        sync.Mutex
	endpoints map[*endpoint]bool
	waiting   []*question
	// left is closed when the last endpoint goes, and made anew when one comes.
	left chan struct{}

	phrase []byte // hash of salt and phrase, nil if none was chosen
	wrong  int
	codes  map[string]chan bool // question id of a pairing -> typed right

	// refused is told of each answer that was not accepted, for the audit.
	refused func(why string)
}

func newHumans(phrase []byte, refused func(string)) *humans {
	h := &humans{endpoints: map[*endpoint]bool{}, left: make(chan struct{}), phrase: phrase, codes: map[string]chan bool{}, refused: refused}
	close(h.left)
	return h
}

// HashPhrase is what of a phrase leaves the terminal in which it was typed.
func HashPhrase(tree, phrase string) []byte {
	sum := sha256.Sum256([]byte("pioneer-super phrase\x00" + tree + "\x00" + phrase))
	return sum[:]
}

// attach makes an endpoint of a proven connection and shows it what waits.
func (h *humans) attach(conn *control.Conn, proof Proof) *endpoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := &endpoint{proof: proof, conn: conn, wake: make(chan struct{}, 1), over: make(chan struct{})}
	if len(h.endpoints) == 0 {
		h.left = make(chan struct{})
	}
	h.endpoints[e] = true
	go h.feed(e)
	return e
}

func (h *humans) detach(e *endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e == nil || !h.endpoints[e] {
		return
	}
	delete(h.endpoints, e)
	close(e.over)
	if len(h.endpoints) == 0 {
		close(h.left)
	}
}

// reachable says whether somebody can answer.
func (h *humans) reachable() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.endpoints) > 0
}

// has says whether an endpoint with that proof is attached.
func (h *humans) has(proof Proof) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.endpoints {
		if e.proof == proof {
			return true
		}
	}
	return false
}

// feed sends an endpoint what it has to know, one frame after the other, until it
// is detached. One that does not read (a front that is stopped) holds nobody else
// and is not given up: what it missed it is shown when it reads again, and what
// came and went meanwhile it never hears of.
func (h *humans) feed(e *endpoint) {
	for {
		m, ok := h.next(e)
		if !ok {
			select {
			case <-e.wake:
				continue
			case <-e.over:
				return
			}
		}
		if e.conn.Send(m) != nil {
			e.conn.Close()
			return
		}
	}
}

// next is what an endpoint has to be told first: the end of a question that it was
// shown, else a question that waits. A pairing is shown where a terminal is proven:
// its code stands in the other one.
func (h *humans) next(e *endpoint) (control.Message, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(e.notices) > 0 {
		text := e.notices[0]
		e.notices = e.notices[1:]
		return control.Message{Notice: &control.Notice{Text: text}}, true
	}
	for i, q := range e.shown {
		if q.done {
			e.shown = slices.Delete(e.shown, i, i+1)
			return control.Message{Withdraw: &control.Withdraw{ID: q.ID, Digest: q.Digest, Why: q.why}}, true
		}
	}
	for _, q := range h.waiting {
		if q.Pairing && e.proof != ProofTerminal || slices.Contains(e.shown, q) {
			continue
		}
		if e.shows(q.Session) >= maxShown {
			continue
		}
		e.shown = append(e.shown, q)
		shown := q.Question
		shown.Waiting = len(h.waiting) - 1
		return control.Message{Question: &shown}, true
	}
	return control.Message{}, false
}

// maxNotices bounds the lines that wait for one endpoint.
const maxNotices = 64

// notify says a line to every endpoint but that of a connection which was told.
func (h *humans) notify(text string, told *control.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := range h.endpoints {
		if e.conn != told && len(e.notices) < maxNotices {
			e.notices = append(e.notices, text)
		}
	}
	h.wake()
}

// shows counts the questions of a session that an endpoint was sent and that wait.
func (e *endpoint) shows(session string) (n int) {
	for _, q := range e.shown {
		if q.Session == session {
			n++
		}
	}
	return n
}

// wake lets every endpoint look for news. Its caller holds mu.
func (h *humans) wake() {
	for e := range h.endpoints {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// ask shows a question to every endpoint and returns the first valid answer. It
// returns ErrNobody at once when none is attached, or three seconds after the
// last one went, and the context's error when the asker is gone.
func (h *humans) ask(ctx context.Context, shown control.Question) (humanAnswer, error) {
	q := &question{Question: shown, answered: make(chan humanAnswer, 1)}
	// An endpoint is the last to find out: its connection is the tree's lifeline.
	if !control.Fits(control.Message{Question: &shown}) {
		return humanAnswer{}, ErrTooLarge
	}
	h.mu.Lock()
	if len(h.endpoints) == 0 {
		h.mu.Unlock()
		return humanAnswer{}, ErrNobody
	}
	mine := 0
	for _, w := range h.waiting {
		if w.Session == q.Session {
			mine++
		}
	}
	if len(h.waiting) >= maxPending || mine >= maxPerSession {
		h.mu.Unlock()
		return humanAnswer{}, ErrTooManyAsks
	}
	h.waiting = append(h.waiting, q)
	h.wake()
	h.mu.Unlock()
	for {
		h.mu.Lock()
		left := h.left
		h.mu.Unlock()
		select {
		case a := <-q.answered:
			return a.said()
		case <-ctx.Done():
			h.withdraw(q, "the asker is gone")
			return humanAnswer{}, ctx.Err()
		case <-left:
			select {
			case a := <-q.answered:
				return a.said()
			case <-ctx.Done():
			case <-time.After(lostEndpointWait):
			}
			if ctx.Err() != nil || !h.reachable() {
				h.withdraw(q, "nobody can answer any more")
				if ctx.Err() != nil {
					return humanAnswer{}, ctx.Err()
				}
				return humanAnswer{}, ErrNobody
			}
		}
	}
}

func (h *humans) withdraw(q *question, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.close(q, why)
}

// close takes q off the list and tells every endpoint. Its caller holds mu.
func (h *humans) close(q *question, why string) {
	if q.done {
		return
	}
	q.done, q.why = true, why
	h.waiting = slices.DeleteFunc(h.waiting, func(w *question) bool { return w == q })
	h.wake()
}

// answer takes what an endpoint says. An answer to a question that is gone is no
// error and has no effect; one that does not fit its question is refused and
// leaves it open.
func (h *humans) answer(e *endpoint, a control.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.endpoints[e] {
		h.refused(errNotProven.Error())
		return
	}
	// Ids are minted by clients: two sessions may have the same.
	i := slices.IndexFunc(h.waiting, func(q *question) bool { return q.ID == a.ID && q.Digest == a.Digest })
	if i < 0 {
		i = slices.IndexFunc(h.waiting, func(q *question) bool { return q.ID == a.ID })
	}
	if i < 0 {
		return
	}
	q := h.waiting[i]
	if why := h.unfit(q, a, e); why != "" {
		h.refused(fmt.Sprintf("answer to %s: %s", a.ID, why))
		return
	}
	proof := e.proof
	if q.wide(a) {
		if len(a.Phrase) == 0 || !h.checkHash(a.Phrase) {
			h.refused(fmt.Sprintf("answer to %s: it allows more than once where something could type for the human, so that it needs the phrase of the tree", a.ID))
			// Its dialog is over: it is shown again.
			e.shown = slices.DeleteFunc(e.shown, func(s *question) bool { return s == q })
			h.wake()
			return
		}
		proof = ProofPhrase
	}
	q.answered <- humanAnswer{Answer: a, Proof: proof}
	h.close(q, "answered: "+a.Decision)
}

// wide says that an answer needs the phrase.
func (q *question) wide(a control.Answer) bool {
	switch a.Decision {
	case "allow_once":
		return q.PhraseNeeded
	case "allow_for_turn", "allow_always":
		return !q.TurnAllowed
	}
	return false
}

func (h *humans) unfit(q *question, a control.Answer, e *endpoint) string {
	if a.Digest != q.Digest {
		return "it is for another record than the one that waits"
	}
	if q.Pairing {
		if e.proof != ProofTerminal || a.Decision != "code" && a.Decision != "deny" {
			return "a pairing is answered with its code, in the terminal of the tree"
		}
		return ""
	}
	switch a.Decision {
	case "deny", "allow_once", "unavailable":
	case "allow_for_turn":
		if q.TurnPattern == "" || !q.TurnAllowed && len(a.Phrase) == 0 {
			return "allow for the turn was not offered"
		}
		strong := slices.ContainsFunc(q.Offers, func(o control.Offer) bool { return o.Strong && slices.Contains(a.Offers, o.Key) })
		switch {
		case a.Scope != "" && a.Scope != "pattern", a.Scope == "pattern" && q.Pattern == "":
			return fmt.Sprintf("scope %q was not offered", a.Scope)
		case a.Tree && !q.TreeAllowed:
			return "an allow for the whole tree was not offered"
		case strong && (a.Tree || a.Scope != ""):
			return "a grant that is wider than this one command never turns the sandbox off"
		}
	case "allow_always":
		if q.Always == "" || !q.TurnAllowed && len(a.Phrase) == 0 {
			return "a rule in the policy was not offered"
		}
	default:
		return fmt.Sprintf("unknown decision %q", a.Decision)
	}
	for _, key := range a.Offers {
		j := slices.IndexFunc(q.Offers, func(o control.Offer) bool { return o.Key == key })
		if j < 0 {
			return fmt.Sprintf("%q was not offered", key)
		}
		if o := q.Offers[j]; !o.On && !o.Changeable {
			return fmt.Sprintf("%q cannot be opened here", key)
		}
	}
	return ""
}

// hasPhrase says whether a phrase was chosen and can still be given.
func (h *humans) hasPhrase() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phrase != nil && h.wrong < maxWrongPhrases
}

// phraseProves compares a phrase; three wrong ones lock this way for the tree.
func (h *humans) phraseProves(hash []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.checkHash(hash)
}

func (h *humans) checkHash(hash []byte) bool {
	if h.phrase == nil || h.wrong >= maxWrongPhrases {
		return false
	}
	if subtle.ConstantTimeCompare(hash, h.phrase) == 1 {
		return true
	}
	h.wrong++
	h.refused(fmt.Sprintf("wrong phrase, %d of %d", h.wrong, maxWrongPhrases))
	return false
}

// pairingAlphabet has no two letters that look alike.
const pairingAlphabet = "abcdefghjkmnpqrstuvwxyz23456789"

// pairingCode makes the code that the second terminal shows.
func pairingCode() string {
	b := make([]byte, 8)
	rand.Read(b)
	for i := range b {
		b[i] = pairingAlphabet[int(b[i])%len(pairingAlphabet)]
	}
	return string(b[:4]) + "-" + string(b[4:])
}

// pair asks in the tree's terminal for the code that the connection of `approve`
// shows. It is an ordinary question, so that a pairing nobody started is seen.
func (h *humans) pair(ctx context.Context, id, code, who string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	a, err := h.ask(ctx, control.Question{
		ID: id, Digest: id, Pairing: true, Code: code, Session: "approve",
		Command:  "pioneer-super approve",
		Reason:   "a second terminal (" + who + ") wants to answer for you; type the code that it shows, only if you started it",
		Strength: "human operation",
	})
	if err != nil {
		return err
	}
	if a.Decision != "code" || subtle.ConstantTimeCompare([]byte(a.Code), []byte(code)) != 1 {
		h.refused("pairing: the code was not the one that was shown")
		return errors.New("the code was not the one that this terminal shows")
	}
	return nil
}
