package inbox

// OpenQuiet is Open with another time without a word.
var OpenQuiet = open
