/** What a project looks like on the wire. */
import { z } from 'zod';
import { environment, id, listOf, time } from './common.ts';

const project = z
  .object({
    object: z.literal('project'),
    id: id('The project.'),
    name: z.string(),
    created_at: time('When it was made.'),
    warnings: z
      .array(
        z.object({
          about: z.literal('reputation'),
          environment,
          domain: z.string().describe('The sending domain.'),
          message: z.string(),
        }),
      )
      .describe('Of the project and environment of the key; of others nothing is told.'),
  })
  .meta({ id: 'Project' });

export const projectList = listOf(project);
