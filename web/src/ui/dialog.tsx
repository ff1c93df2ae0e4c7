import { Dialog as Base } from '@base-ui/react/dialog';
import { X } from 'lucide-react';
import { type ReactNode, useRef } from 'react';
import { isPageCovered } from '../api/cover.ts';

type Props = {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  /** Hides the title, as in the palette. */
  isBare?: boolean;
};

/** Fields to type into. */
const FIELD =
  'input:not([type="hidden"], [type="checkbox"], [type="radio"], [disabled], [readonly]), textarea, select';

export function Dialog({ isOpen, onClose, title, children, isBare = false }: Props): ReactNode {
  const popup = useRef<HTMLDivElement>(null);
  // Without a field no control has the focus, so that Enter neither closes the dialog nor confirms it unread.
  const firstField = (): HTMLElement | null =>
    popup.current?.querySelector<HTMLElement>(FIELD) ?? popup.current;
  return (
    <Base.Root open={isOpen} onOpenChange={(open) => !open && !isPageCovered() && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-scrim" />
        <Base.Popup
          ref={popup}
          initialFocus={firstField}
          className="fixed top-[12vh] left-1/2 z-50 max-h-[76vh] w-[min(34rem,calc(100vw-2rem))] -translate-x-1/2 overflow-auto rounded-xl border border-line bg-raised shadow-2xl"
        >
          <div
            className={isBare ? 'sr-only' : 'flex items-center border-b border-line px-4 py-2.5'}
          >
            <Base.Title className="grow font-semibold">{title}</Base.Title>
            <Base.Close
              aria-label="Close"
              className="inline-flex h-8 w-8 items-center justify-center rounded-md text-muted hover:bg-hover"
            >
              <X size={16} aria-hidden />
            </Base.Close>
          </div>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}
