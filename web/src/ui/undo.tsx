/** Offers to undo a change for one minute, also after the screen has changed. The next change replaces the offer. */
import { X } from 'lucide-react';
import { createContext, type ReactNode, useContext, useEffect, useState } from 'react';
import { sentenceOf } from './states.tsx';

const OFFERED_MS = 60_000;

type Change = { text: string; undo: () => Promise<void> };

const Offer = createContext<(change: Change) => void>(() => {});

/** Call it after a change, with a sentence about it and the reverse operation. */
export function useOfferUndo(): (change: Change) => void {
  return useContext(Offer);
}

export function UndoProvider({ children }: { children: ReactNode }): ReactNode {
  const [change, setChange] = useState<Change | null>(null);
  const close = (): void => setChange(null);
  useEffect(() => {
    if (change === null) return;
    const timer = setTimeout(close, OFFERED_MS);
    return () => clearTimeout(timer);
  }, [change]);
  return (
    <Offer value={setChange}>
      {children}
      <div role="status" className="fixed inset-x-4 bottom-4 z-30 flex justify-center empty:hidden">
        {change && <Offered key={change.text} change={change} onClose={close} />}
      </div>
    </Offer>
  );
}

function Offered({ change, onClose }: { change: Change; onClose: () => void }): ReactNode {
  const [state, setState] = useState<{ isRunning: boolean; failure: string | null }>({
    isRunning: false,
    failure: null,
  });
  const undo = async (): Promise<void> => {
    setState({ isRunning: true, failure: null });
    try {
      await change.undo();
      onClose();
    } catch (error) {
      setState({ isRunning: false, failure: sentenceOf(error) });
    }
  };
  return (
    <div className="arrive-from-below flex max-w-full items-center gap-2 rounded-lg bg-toast py-1.5 pr-1.5 pl-3.5 text-sm text-on-toast shadow-float">
      <span className="mr-1 min-w-0 break-words">{state.failure ?? change.text}</span>
      <button
        type="button"
        disabled={state.isRunning}
        onClick={() => void undo()}
        className="h-6.5 shrink-0 rounded bg-toast-button px-2.5 font-semibold hover:opacity-85 disabled:opacity-55"
      >
        Undo
      </button>
      <button
        type="button"
        aria-label="Dismiss"
        title="Dismiss"
        onClick={onClose}
        className="inline-grid size-6.5 shrink-0 place-items-center rounded hover:bg-toast-button"
      >
        <X size={14} aria-hidden />
      </button>
    </div>
  );
}
