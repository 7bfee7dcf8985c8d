// Package slot computes the hash slot of a key in a Redis Cluster, as the
// cluster specification defines it
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model).
package slot

import "strings"

// Of returns the slot of key, 0 to 16383: CRC16 (XMODEM) of the hash tag, or of
// the whole key when it has no non-empty tag.
func Of(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if size := strings.IndexByte(key[open+1:], '}'); size > 0 {
			key = key[open+1 : open+1+size]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ table[byte(crc>>8)^key[i]]
	}
	return crc & 0x3fff
}

// table has the CRC of each byte: a manager asks for the slot of every lock it renews.
var table = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()
