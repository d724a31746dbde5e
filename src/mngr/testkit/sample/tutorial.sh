#!/bin/sh
# The pantry in ten minutes.

set -e

### Begin

# which version is this
pantry --version

# make a pantry in this directory
pantry init

### Put things in, take them out

# put something in
pantry add rice

# say how much of it
pantry add rice --amount 2 --unit kg

# say where it goes
pantry add jam --place top

# half of something
pantry add flour --amount 1.5 --unit kg

# take something out
pantry take rice --amount 2

# half of it
pantry take rice --amount 0.5

# more than there is
pantry take rice --amount 9

# there never was such a thing
pantry forget rice

### See what there is

# everything
pantry list

# sorted by name
pantry list --sort item

# the most first
pantry list --sort amount

# for a spreadsheet
pantry list --format csv

# halves are shown, too
pantry add milk --amount 2.5 --unit l
pantry list

# where is it
pantry find ric

# what is not there
pantry find plums

# what runs low
pantry low

# how many things are there
pantry count

# what to cook with
pantry suggest

### Keep it in order

# put it on another shelf
pantry move rice bottom

# call it by another name
pantry rename rice basmati

# all of it in a file
pantry export pantry.csv
