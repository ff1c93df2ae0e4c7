/** Prints the time of one exponentiation in its process, in µs: openssl-tuning.ts starts it with other variables. */
import { exponentiationUs } from './openssl-tuning.ts';

process.stdout.write(String(exponentiationUs()));
