;; Sixteen rows of a matrix times a vector x, four numbers at a time. matvec.js calls it for each band of sixteen rows,
;; and holds the bytes that this text becomes (wat2wasm is in the package `wabt` of Debian, Homebrew and npm):
;;
;;     wat2wasm matvec.wat -o matvec.wasm && base64 matvec.wasm
;;
;; Read by columns, the product is a sum: each column of the matrix times its number of x. So a band lies in memory
;; column by column, and each of the sixteen sums has a place of its own in one of four registers.
(module
  (import "js" "memory" (memory 0))
  ;; Addresses, counted in bytes: of the band, of x, of the end of x, and of the place for the sixteen sums.
  (func (export "multiply") (param $band i32) (param $x i32) (param $end i32) (param $out i32)
    ;; The sums, zero at first. With one register each addition would wait for the one before; with four, they overlap.
    (local $a v128) (local $b v128) (local $c v128) (local $d v128)
    (local $number v128) ;; one of x, four times
    (loop $column
      (local.set $number (v128.load32_splat (local.get $x)))
      (local.set $a (f32x4.add (local.get $a) (f32x4.mul (local.get $number) (v128.load (local.get $band)))))
      (local.set $b (f32x4.add (local.get $b) (f32x4.mul (local.get $number) (v128.load offset=16 (local.get $band)))))
      (local.set $c (f32x4.add (local.get $c) (f32x4.mul (local.get $number) (v128.load offset=32 (local.get $band)))))
      (local.set $d (f32x4.add (local.get $d) (f32x4.mul (local.get $number) (v128.load offset=48 (local.get $band)))))
      (local.set $band (i32.add (local.get $band) (i32.const 64))) ;; 16 numbers of 4 bytes
      (local.set $x (i32.add (local.get $x) (i32.const 4)))
      (br_if $column (i32.lt_u (local.get $x) (local.get $end))))
    (v128.store (local.get $out) (local.get $a))
    (v128.store offset=16 (local.get $out) (local.get $b))
    (v128.store offset=32 (local.get $out) (local.get $c))
    (v128.store offset=48 (local.get $out) (local.get $d))))
