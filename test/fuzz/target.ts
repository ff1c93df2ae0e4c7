/** A target: a generator of inputs, and the real reader that gets them. */
import type { RandomSource } from '../chaos/random.ts';

export type Input = {
  /** Name of the reader, or of the format, that gets the input. */
  kind: string;
  bytes: Buffer;
};

export type Target = {
  name: string;
  about: string;
  /** Returns a random input. The same random numbers give the same input. */
  generate(random: RandomSource): Input;
  /** Returns a function that makes inputs of about this many bytes, with the same structure for every length. */
  grow(random: RandomSource): (bytes: number) => Input;
  /** Maximum bytes that are read. Beyond them the time does not grow. */
  growsUpTo: number;
  /** Maximum CPU time of an input of any length, in milliseconds. */
  cpuMsMax: number;
  open(): Promise<Reader>;
};

export type Reader = {
  /** Reads the input. Throws when the result breaks a rule for all inputs. */
  read(input: Input): void | Promise<void>;
  close?(): Promise<void>;
};
