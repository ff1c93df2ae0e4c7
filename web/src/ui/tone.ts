/** The tone of a state: its meaning to the reader. A colour stands for it everywhere: in chips, verdicts and charts. */
import {
  Ban,
  Check,
  CircleAlert,
  Circle,
  Flag,
  type LucideIcon,
  TriangleAlert,
} from 'lucide-react';

export type Tone = 'good' | 'wait' | 'bad' | 'spam' | 'open' | 'quiet';

/** The icon of a tone where a state has none of its own. */
export const TONE_ICONS: Readonly<Record<Tone, LucideIcon>> = {
  good: Check,
  wait: TriangleAlert,
  bad: CircleAlert,
  spam: Flag,
  open: Circle,
  quiet: Ban,
};
