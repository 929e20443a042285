detshare-profile 1
name slabs
source written by hand: ten waves of blocks of half a millisecond, over and over
gpu h200
sms 132
kernel slab grid=2640 block=1024 regs=32 ns=5000000
