/** A target: a generator of inputs, and the real reader that gets them. */
import type { RandomSource } from '../chaos/random.ts';

export type Input = {
  /** The reader of the target that gets the input. */
  kind: string;
  bytes: Buffer;
};

export type Target = {
  name: string;
  about: string;
  /** The same random, the same input. */
  generate(random: RandomSource): Input;
  /** An input of about so many bytes, alike in its structure for every length. */
  grow(random: RandomSource): (bytes: number) => Input;
  /** Bytes that are read at most: beyond them time does not grow. */
  growsUpTo: number;
  /** CPU that one input of any length may take. */
  cpuMsMax: number;
  open(): Promise<Reader>;
};

export type Reader = {
  /** Throws when the input does what no input may. */
  read(input: Input): void | Promise<void>;
  close?(): Promise<void>;
};
