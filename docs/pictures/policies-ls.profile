detshare-profile 1
name service
source written by hand: four kernels of 0.15 ms on half of the SMs
gpu h200
sms 132
kernel a grid=132 block=1024 regs=32 ns=150000
kernel b grid=132 block=1024 regs=32 ns=150000
kernel c grid=132 block=1024 regs=32 ns=150000
kernel d grid=132 block=1024 regs=32 ns=150000
