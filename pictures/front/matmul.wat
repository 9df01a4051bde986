;; The product of two matrices, or of views into larger ones. matmul.js calls it, and holds the bytes that this text becomes
;; (wat2wasm is in the package `wabt` of Debian, Homebrew and npm):
;;
;;     wat2wasm matmul.wat -o matmul.wasm && base64 --wrap=0 matmul.wasm
;;
;; A block of four rows and eight columns of the product is computed at a time: its 32 sums stay in eight registers, while
;; the loop walks down eight columns of b and along four rows of a. For that these are copied first to where they lie in the
;; order in which they are needed, whatever their strides: so a matrix and its transpose cost the same.
(module
  (import "js" "memory" (memory 0))
  ;; Copies $k rows of four numbers each. From one number to the next in a row it is $right bytes, from one row to the next
  ;; $down; the copies of two rows begin $step bytes apart.
  (func $copy (param $from i32) (param $down i32) (param $right i32) (param $to i32) (param $step i32) (param $k i32)
    (if (i32.eq (local.get $right) (i32.const 4)) ;; neighbours: all four at once
      (then (loop $row
        (v128.store (local.get $to) (v128.load (local.get $from)))
        (local.set $from (i32.add (local.get $from) (local.get $down)))
        (local.set $to (i32.add (local.get $to) (local.get $step)))
        (br_if $row (local.tee $k (i32.sub (local.get $k) (i32.const 1))))))
      (else (loop $row
        (f32.store (local.get $to) (f32.load (local.get $from)))
        (f32.store offset=4 (local.get $to) (f32.load (i32.add (local.get $from) (local.get $right))))
        (f32.store offset=8 (local.get $to)
          (f32.load (i32.add (local.get $from) (i32.mul (local.get $right) (i32.const 2)))))
        (f32.store offset=12 (local.get $to)
          (f32.load (i32.add (local.get $from) (i32.mul (local.get $right) (i32.const 3)))))
        (local.set $from (i32.add (local.get $from) (local.get $down)))
        (local.set $to (i32.add (local.get $to) (local.get $step)))
        (br_if $row (local.tee $k (i32.sub (local.get $k) (i32.const 1))))))))

  ;; c = a · b, or c += a · b where $keep is not 0. a is m × k, b is k × n; m must be a multiple of 4, n of 8. All addresses
  ;; and strides are in bytes; the rows of c have no gaps between their numbers. $spare is room for 4 k (n + 4) bytes.
  (func (export "multiply")
    (param $a i32) (param $a_down i32) (param $a_right i32)
    (param $b i32) (param $b_down i32) (param $b_right i32)
    (param $c i32) (param $c_down i32)
    (param $m i32) (param $n i32) (param $k i32) (param $keep i32) (param $spare i32)
    (local $rows i32) (local $end i32) (local $j i32) ;; the copy of four rows of a; where it ends; columns still to do
    (local $p i32) (local $q i32) ;; in the copy of a, and in that of b
    (local $c0 i32) (local $c1 i32) (local $c2 i32) (local $c3 i32) ;; where the block's four rows begin
    (local $x v128) (local $y v128) (local $number v128) ;; eight numbers of b, and one of a, four times
    (local $x0 v128) (local $y0 v128) (local $x1 v128) (local $y1 v128) ;; the sums of the four rows
    (local $x2 v128) (local $y2 v128) (local $x3 v128) (local $y3 v128)
    ;; All of b, eight columns at a time.
    (local.set $q (local.get $spare))
    (local.set $j (local.get $n))
    (loop $band
      (call $copy (local.get $b) (local.get $b_down) (local.get $b_right) (local.get $q) (i32.const 32) (local.get $k))
      (call $copy (i32.add (local.get $b) (i32.mul (local.get $b_right) (i32.const 4))) (local.get $b_down)
        (local.get $b_right) (i32.add (local.get $q) (i32.const 16)) (i32.const 32) (local.get $k))
      (local.set $b (i32.add (local.get $b) (i32.mul (local.get $b_right) (i32.const 8))))
      (local.set $q (i32.add (local.get $q) (i32.mul (local.get $k) (i32.const 32))))
      (br_if $band (local.tee $j (i32.sub (local.get $j) (i32.const 8)))))
    (local.set $rows (local.get $q))
    (local.set $end (i32.add (local.get $rows) (i32.mul (local.get $k) (i32.const 16))))
    (loop $four
      (call $copy (local.get $a) (local.get $a_right) (local.get $a_down) (local.get $rows) (i32.const 16) (local.get $k))
      (local.set $q (local.get $spare))
      (local.set $c0 (local.get $c))
      (local.set $j (local.get $n))
      (loop $block
        (local.set $c1 (i32.add (local.get $c0) (local.get $c_down)))
        (local.set $c2 (i32.add (local.get $c1) (local.get $c_down)))
        (local.set $c3 (i32.add (local.get $c2) (local.get $c_down)))
        (if (local.get $keep)
          (then
            (local.set $x0 (v128.load (local.get $c0))) (local.set $y0 (v128.load offset=16 (local.get $c0)))
            (local.set $x1 (v128.load (local.get $c1))) (local.set $y1 (v128.load offset=16 (local.get $c1)))
            (local.set $x2 (v128.load (local.get $c2))) (local.set $y2 (v128.load offset=16 (local.get $c2)))
            (local.set $x3 (v128.load (local.get $c3))) (local.set $y3 (v128.load offset=16 (local.get $c3))))
          (else
            (local.set $x (v128.const i32x4 0 0 0 0))
            (local.set $x0 (local.get $x)) (local.set $y0 (local.get $x))
            (local.set $x1 (local.get $x)) (local.set $y1 (local.get $x))
            (local.set $x2 (local.get $x)) (local.set $y2 (local.get $x))
            (local.set $x3 (local.get $x)) (local.set $y3 (local.get $x))))
        (local.set $p (local.get $rows))
        (loop $sum
          (local.set $x (v128.load (local.get $q)))
          (local.set $y (v128.load offset=16 (local.get $q)))
          (local.set $number (v128.load32_splat (local.get $p)))
          (local.set $x0 (f32x4.add (local.get $x0) (f32x4.mul (local.get $number) (local.get $x))))
          (local.set $y0 (f32x4.add (local.get $y0) (f32x4.mul (local.get $number) (local.get $y))))
          (local.set $number (v128.load32_splat offset=4 (local.get $p)))
          (local.set $x1 (f32x4.add (local.get $x1) (f32x4.mul (local.get $number) (local.get $x))))
          (local.set $y1 (f32x4.add (local.get $y1) (f32x4.mul (local.get $number) (local.get $y))))
          (local.set $number (v128.load32_splat offset=8 (local.get $p)))
          (local.set $x2 (f32x4.add (local.get $x2) (f32x4.mul (local.get $number) (local.get $x))))
          (local.set $y2 (f32x4.add (local.get $y2) (f32x4.mul (local.get $number) (local.get $y))))
          (local.set $number (v128.load32_splat offset=12 (local.get $p)))
          (local.set $x3 (f32x4.add (local.get $x3) (f32x4.mul (local.get $number) (local.get $x))))
          (local.set $y3 (f32x4.add (local.get $y3) (f32x4.mul (local.get $number) (local.get $y))))
          (local.set $q (i32.add (local.get $q) (i32.const 32)))
          (br_if $sum (i32.lt_u (local.tee $p (i32.add (local.get $p) (i32.const 16))) (local.get $end))))
        (v128.store (local.get $c0) (local.get $x0)) (v128.store offset=16 (local.get $c0) (local.get $y0))
        (v128.store (local.get $c1) (local.get $x1)) (v128.store offset=16 (local.get $c1) (local.get $y1))
        (v128.store (local.get $c2) (local.get $x2)) (v128.store offset=16 (local.get $c2) (local.get $y2))
        (v128.store (local.get $c3) (local.get $x3)) (v128.store offset=16 (local.get $c3) (local.get $y3))
        (local.set $c0 (i32.add (local.get $c0) (i32.const 32)))
        (br_if $block (local.tee $j (i32.sub (local.get $j) (i32.const 8)))))
      (local.set $a (i32.add (local.get $a) (i32.mul (local.get $a_down) (i32.const 4))))
      (local.set $c (i32.add (local.get $c) (i32.mul (local.get $c_down) (i32.const 4))))
      (br_if $four (local.tee $m (i32.sub (local.get $m) (i32.const 4)))))))
