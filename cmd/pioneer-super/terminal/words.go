package terminal

import (
	"crypto/rand"
	"math/big"
	"strings"
)

// words are typed to confirm what a single key must not do: short, without
// double letters, and none is the start of another.
var words = strings.Fields(`
acorn amber apron arch atlas autumn bacon badge bamboo banjo basil beach beard birch blanket blaze
bonus brick bridge bronze brush cabin cactus camel candle canyon cargo carpet castle cedar chalk
cherry chimney cider circus clay clover cobalt comet copper coral cotton cradle crane crater cricket
crown crystal cube curtain daisy delta desert diamond dolphin domino donkey dragon drum dune eagle
ebony echo elbow ember engine falcon fern fiddle flame flute forest fossil fox frost galaxy garden
garlic ginger glacier goat gravel guitar hammer harbor hazel helmet heron honey horizon hotel igloo
indigo island ivory jacket jaguar jasmine jungle kayak kernel kettle kiwi ladder lagoon lantern
lemon lilac linen lizard lotus magnet mango maple marble meadow melon meteor mint mirror monkey
mosaic moth mulberry nectar needle nickel north nutmeg oasis ocean olive onion opal orbit orchid
otter oxygen paddle panda paper parrot peach pebble pepper piano pigeon pilot pine planet plum
poem polar pond poplar prism pumpkin quartz quilt rabbit radar radish raven ribbon river robin
rocket saddle saffron sail salmon sandal satin scarf shadow shell silver siren sketch sparrow
spruce squid stamp storm sugar sunset swan table tango tiger timber tomato topaz trumpet tulip
tunnel turtle umbrella urchin valley vanilla velvet violet volcano wagon walnut walrus wander
whale willow window winter wizard wolf yarrow zebra zephyr zigzag
`)

// pickWord returns a word that cannot be foreseen, another one than last.
func pickWord(last string) string {
	for {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(words))))
		if err != nil {
			// Without randomness no word may be guessable: this one cannot be
			// typed, so that nothing that needs a word is allowed.
			return "\x00"
		}
		if w := words[n.Int64()]; w != last {
			return w
		}
	}
}
