/** Schemas that several routes of the root mount share. These routes ignore unknown query parameters. */
import { z } from 'zod';
import { limitField } from '../../../http/schemas.ts';

/** Accepts a word in any case: the client for Java sends the names of its constants, such as `ENFORCED`. */
export const anyCase = <const Words extends readonly string[]>(words: Words) =>
  z.preprocess(
    (word) => (typeof word === 'string' ? word.toLowerCase() : word),
    z.enum<Words>(words),
  );

/** Hides every route of the root mount from the OpenAPI document, which describes only `/v1`. */
export const HIDDEN = { hide: true } as const;

export const idInPath = z.object({ id: z.string() });

export const pageQuery = z.object({
  limit: limitField,
  after: z.string().optional(),
  before: z.string().optional(),
});
