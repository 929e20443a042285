detshare-profile 1
name job
source written by hand: a kernel of four waves of blocks of 0.3 ms, and two short ones
gpu h200
sms 132
kernel long grid=1056 block=1024 regs=32 ns=1200000
kernel short grid=264 block=1024 regs=32 ns=100000
kernel small grid=88 block=1024 regs=32 ns=100000
