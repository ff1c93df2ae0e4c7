/** Shapes that several routes of the root mount share. Unknown query parameters are ignored there. */
import { z } from 'zod';
import { limitField } from '../../../http/schemas.ts';

/** One of some words in any case: the client for Java writes the names of its constants, as `ENFORCED`. */
export const anyCase = <const Words extends readonly string[]>(words: Words) =>
  z.preprocess(
    (word) => (typeof word === 'string' ? word.toLowerCase() : word),
    z.enum<Words>(words),
  );

/** Of every route here: the OpenAPI document describes `/v1` only. */
export const HIDDEN = { hide: true } as const;

export const idInPath = z.object({ id: z.string() });

export const pageQuery = z.object({
  limit: limitField,
  after: z.string().optional(),
  before: z.string().optional(),
});
