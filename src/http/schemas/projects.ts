/** What a project looks like on the wire. */
import { z } from 'zod';
import { id, listOf, time } from './common.ts';

const project = z
  .object({
    object: z.literal('project'),
    id: id('The project.'),
    name: z.string(),
    created_at: time('When it was made.'),
  })
  .meta({ id: 'Project' });

export const projectList = listOf(project);
