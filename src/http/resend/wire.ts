/** Shapes that several routes of the root mount share. Unknown query parameters are ignored there. */
import { z } from 'zod';
import { limitField } from '../schemas/common.ts';

/** Of every route here: the OpenAPI document describes `/v1` only. */
export const HIDDEN = { hide: true } as const;

export const idInPath = z.object({ id: z.string() });

export const pageQuery = z.object({
  limit: limitField,
  after: z.string().optional(),
  before: z.string().optional(),
});
